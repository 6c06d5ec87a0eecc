module @jit_loops attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<i32>, %arg2: tensor<i32>, %arg3: tensor<4xi32>) -> (tensor<3xf32> {jax.result_info = "result[0][0]"}, tensor<3xf32> {jax.result_info = "result[0][1]"}, tensor<i32> {jax.result_info = "result[0][2]"}, tensor<i32> {jax.result_info = "result[1]"}, tensor<2x20xf32> {jax.result_info = "result[2]"}, tensor<i32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<"0x9A9999BE80D498BE660F98BE4C4A97BE328596BE19C095BEFFFA94BEE53594BECB7093BEB1AB92BE98E691BE7E2191BE645C90BE4A978FBE31D28EBE170D8EBEFD478DBEE3828CBEC9BD8BBEB0F88ABE96338ABE7C6E89BE62A988BE48E487BE2F1F87BE155A86BEFB9485BEE1CF84BEC70A84BEAE4583BE948082BE7ABB81BE60F680BE463180BE59D87EBE264E7DBEF2C37BBEBF397ABE8BAF78BE572577BE249B75BEF01074BEBD8672BE89FC70BE55726FBE22E86DBEEE5D6CBEBBD36ABE874969BE54BF67BE203566BEECAA64BEB92063BE859661BE520C60BE1E825EBEEAF75CBEB76D5BBE83E359BE505958BE1CCF56BEE94455BEB5BA53BE813052BE4EA650BE1A1C4FBEE7914DBEB3074CBE7F7D4ABE4CF348BE186947BEE5DE45BEB15444BE7DCA42BE4A4041BE16B63FBEE32B3EBEAFA13CBE7C173BBE488D39BE140338BEE17836BEADEE34BE7A6433BE46DA31BE125030BEDFC52EBEAB3B2DBE78B12BBE44272ABE119D28BEDD1227BEA98825BE76FE23BE427422BE0FEA20BEDB5F1FBEA7D51DBE744B1CBE40C11ABE0D3719BED9AC17BEA62216BE729814BE3E0E13BE0B8411BED7F90FBEA46F0EBE70E50CBE3C5B0BBE09D109BED54608BEA2BC06BE6E3205BE3BA803BE071E02BED39300BE4013FEBDD8FEFABD71EAF7BD0AD6F4BDA3C1F1BD3CADEEBDD498EBBD6D84E8BD0670E5BD9F5BE2BD3847DFBDD132DCBD691ED9BD020AD6BD9BF5D2BD34E1CFBDCDCCCCBD66B8C9BDFEA3C6BD978FC3BD307BC0BDC966BDBD6252BABDFB3DB7BD9329B4BD2C15B1BDC500AEBD5EECAABDF7D7A7BD90C3A4BD28AFA1BDC19A9EBD5A869BBDF37198BD8C5D95BD254992BDBD348FBD56208CBDEF0B89BD88F785BD21E382BD739D7FBDA57479BDD64B73BD08236DBD3AFA66BD6BD160BD9DA85ABDCF7F54BD00574EBD322E48BD640542BD95DC3BBDC7B335BDF98A2FBD2A6229BD5C3923BD8E101DBDBFE716BDF1BE10BD23960ABD546D04BD0C89FCBC6F37F0BCD3E5E3BC3694D7BC9942CBBCFDF0BEBC609FB2BCC34DA6BC26FC99BC8AAA8DBCED5881BCA10E6ABC686B51BC2EC838BCF52420BCBB8107BC04BDDDBB9276ACBB3E6076BB58D313BBCB1945BACB19453A58D3133B3E60763B9276AC3B04BDDD3BBB81073CF524203C2EC8383C686B513CA10E6A3CED58813C8AAA8D3C26FC993CC34DA63C609FB23CFDF0BE3C9942CB3C3694D73CD3E5E33C6F37F03C0C89FC3C546D043D23960A3DF1BE103DBFE7163D8E101D3D5C39233D2A62293DF98A2F3DC7B3353D95DC3B3D6405423D322E483D00574E3DCF7F543D9DA85A3D6BD1603D3AFA663D08236D3DD64B733DA574793D739D7F3D21E3823D88F7853DEF0B893D56208C3DBD348F3D2549923D8C5D953DF371983D5A869B3DC19A9E3D28AFA13D90C3A43DF7D7A73D5EECAA3DC500AE3D2C15B13D9329B43DFB3DB73D6252BA3DC966BD3D307BC03D978FC33DFEA3C63D66B8C93DCDCCCC3D34E1CF3D9BF5D23D020AD63D691ED93DD132DC3D3847DF3D9F5BE23D0670E53D6D84E83DD498EB3D3CADEE3DA3C1F13D0AD6F43D71EAF73DD8FEFA3D4013FE3DD393003E071E023E3BA8033E6E32053EA2BC063ED546083E09D1093E3C5B0B3E70E50C3EA46F0E3ED7F90F3E0B84113E3E0E133E7298143EA622163ED9AC173E0D37193E40C11A3E744B1C3EA7D51D3EDB5F1F3E0FEA203E4274223E76FE233EA988253EDD12273E119D283E44272A3E78B12B3EAB3B2D3EDFC52E3E1250303E46DA313E7A64333EADEE343EE178363E1403383E488D393E7C173B3EAFA13C3EE32B3E3E16B63F3E4A40413E7DCA423EB154443EE5DE453E1869473E4CF3483E7F7D4A3EB3074C3EE7914D3E1A1C4F3E4EA6503E8130523EB5BA533EE944553E1CCF563E5059583E83E3593EB76D5B3EEAF75C3E1E825E3E520C603E8596613EB920633EECAA643E2035663E54BF673E8749693EBBD36A3EEE5D6C3E22E86D3E55726F3E89FC703EBD86723EF010743E249B753E5725773E8BAF783EBF397A3EF2C37B3E264E7D3E59D87E3E4631803E60F6803E7ABB813E9480823EAE45833EC70A843EE1CF843EFB94853E155A863E2F1F873E48E4873E62A9883E7C6E893E96338A3EB0F88A3EC9BD8B3EE3828C3EFD478D3E170D8E3E31D28E3E4A978F3E645C903E7E21913E98E6913EB1AB923ECB70933EE535943EFFFA943E19C0953E3285963E4C4A973E660F983E80D4983E9A99993E"> : tensor<20x20xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:5 = stablehlo.while(%iterArg = %arg0, %iterArg_5 = %arg0, %iterArg_6 = %0, %iterArg_7 = %arg0, %iterArg_8 = %c) : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>
    cond {
      %6 = stablehlo.multiply %iterArg_6, %iterArg_6 : tensor<3xf32>
      %7 = stablehlo.subtract %6, %iterArg : tensor<3xf32>
      %8 = stablehlo.abs %7 : tensor<3xf32>
      %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %9 = stablehlo.reduce(%8 init: %cst_9) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
      %cst_10 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %10 = stablehlo.compare GT, %9, %cst_10, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c_11 = stablehlo.constant dense<50> : tensor<i32>
      %11 = stablehlo.compare LT, %iterArg_8, %c_11, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_12 = stablehlo.constant dense<false> : tensor<i1>
      %12 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i1>) -> tensor<i1>
      %13 = stablehlo.compare NE, %11, %12, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %14 = stablehlo.convert %13 : tensor<i1>
      %15 = stablehlo.and %10, %14 : tensor<i1>
      stablehlo.return %15 : tensor<i1>
    } do {
      %6 = stablehlo.divide %iterArg_5, %iterArg_6 : tensor<3xf32>
      %7 = stablehlo.add %iterArg_6, %6 : tensor<3xf32>
      %cst_9 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %8 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %9 = stablehlo.multiply %8, %7 : tensor<3xf32>
      %c_10 = stablehlo.constant dense<1> : tensor<i32>
      %10 = stablehlo.add %iterArg_8, %c_10 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_5, %9, %iterArg_6, %10 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>
    }
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %2:5 = stablehlo.while(%iterArg = %arg2, %iterArg_5 = %arg3, %iterArg_6 = %c_1, %iterArg_7 = %arg1, %iterArg_8 = %c_2) : tensor<i32>, tensor<4xi32>, tensor<i32>, tensor<i32>, tensor<i32>
    cond {
      %6 = stablehlo.compare LT, %iterArg_6, %iterArg_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %c_9 = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.add %iterArg_6, %c_9 : tensor<i32>
      %7 = stablehlo.convert %iterArg_6 : tensor<i32>
      %8 = stablehlo.add %iterArg, %7 : tensor<i32>
      %c_10 = stablehlo.constant dense<0> : tensor<i32>
      %9:2 = stablehlo.while(%iterArg_14 = %8, %iterArg_15 = %c_10) : tensor<i32>, tensor<i32>
      cond {
        %c_16 = stablehlo.constant dense<1> : tensor<i32>
        %21 = stablehlo.compare NE, %iterArg_14, %c_16, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %21 : tensor<i1>
      } do {
        %c_16 = stablehlo.constant dense<2> : tensor<i32>
        %21 = func.call @remainder(%iterArg_14, %c_16) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        %c_17 = stablehlo.constant dense<0> : tensor<i32>
        %22 = stablehlo.compare EQ, %21, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_18 = stablehlo.constant dense<2> : tensor<i32>
        %23 = func.call @floor_divide(%iterArg_14, %c_18) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        %c_19 = stablehlo.constant dense<3> : tensor<i32>
        %24 = stablehlo.multiply %c_19, %iterArg_14 : tensor<i32>
        %c_20 = stablehlo.constant dense<1> : tensor<i32>
        %25 = stablehlo.add %24, %c_20 : tensor<i32>
        %26 = func.call @_where(%22, %23, %25) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
        %c_21 = stablehlo.constant dense<1> : tensor<i32>
        %27 = stablehlo.add %iterArg_15, %c_21 : tensor<i32>
        stablehlo.return %26, %27 : tensor<i32>, tensor<i32>
      }
      %c_11 = stablehlo.constant dense<4> : tensor<i32>
      %10 = func.call @remainder_0(%iterArg_6, %c_11) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %c_12 = stablehlo.constant dense<0> : tensor<i32>
      %11 = stablehlo.compare LT, %10, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %12 = stablehlo.convert %10 : tensor<i32>
      %c_13 = stablehlo.constant dense<4> : tensor<i32>
      %13 = stablehlo.add %12, %c_13 : tensor<i32>
      %14 = stablehlo.select %11, %13, %10 : tensor<i1>, tensor<i32>
      %15 = stablehlo.dynamic_slice %iterArg_5, %14, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
      %16 = stablehlo.reshape %15 : (tensor<1xi32>) -> tensor<i32>
      %17 = stablehlo.convert %9#1 : tensor<i32>
      %18 = stablehlo.multiply %17, %16 : tensor<i32>
      %19 = stablehlo.convert %iterArg_8 : tensor<i32>
      %20 = stablehlo.add %19, %18 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_5, %6, %iterArg_7, %20 : tensor<i32>, tensor<4xi32>, tensor<i32>, tensor<i32>, tensor<i32>
    }
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x20xf32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %4:5 = stablehlo.while(%iterArg = %cst, %iterArg_5 = %arg1, %iterArg_6 = %c_4, %iterArg_7 = %arg1, %iterArg_8 = %3) : tensor<20x20xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<2x20xf32>
    cond {
      %6 = stablehlo.compare LT, %iterArg_6, %iterArg_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %c_9 = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.add %iterArg_6, %c_9 : tensor<i32>
      %7 = stablehlo.dot_general %iterArg_8, %iterArg, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x20xf32>, tensor<20x20xf32>) -> tensor<2x20xf32>
      %8 = stablehlo.tanh %7 : tensor<2x20xf32>
      %9 = stablehlo.convert %iterArg_6 : (tensor<i32>) -> tensor<f32>
      %10 = stablehlo.convert %iterArg_5 : (tensor<i32>) -> tensor<f32>
      %11 = stablehlo.divide %9, %10 : tensor<f32>
      %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<2x20xf32>
      %13 = stablehlo.add %8, %12 : tensor<2x20xf32>
      stablehlo.return %iterArg, %iterArg_5, %6, %iterArg_7, %13 : tensor<20x20xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<2x20xf32>
    }
    %5:2 = stablehlo.while(%iterArg = %arg1, %iterArg_5 = %arg1) : tensor<i32>, tensor<i32>
    cond {
      %6 = stablehlo.compare LT, %iterArg_5, %iterArg, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %c_6 = stablehlo.constant dense<2> : tensor<i32>
      %6 = stablehlo.multiply %iterArg_5, %c_6 : tensor<i32>
      stablehlo.return %iterArg, %6 : tensor<i32>, tensor<i32>
    }
    return %1#2, %1#3, %1#4, %2#4, %4#4, %5#1 : tensor<3xf32>, tensor<3xf32>, tensor<i32>, tensor<i32>, tensor<2x20xf32>, tensor<i32>
  }
  func.func private @remainder(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where(%1, %c_0, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.remainder %arg0, %2 : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.compare NE, %3, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %3, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.compare LT, %2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7 = stablehlo.compare NE, %5, %6, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %8 = stablehlo.and %7, %4 : tensor<i1>
    %9 = stablehlo.add %3, %2 : tensor<i32>
    %10 = stablehlo.select %8, %9, %3 : tensor<i1>, tensor<i32>
    return %10 : tensor<i32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @floor_divide(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.divide %arg0, %0 : tensor<i32>
    %2 = stablehlo.sign %arg0 : tensor<i32>
    %3 = stablehlo.sign %0 : tensor<i32>
    %4 = stablehlo.compare NE, %2, %3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %5 = stablehlo.remainder %arg0, %0 : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.compare NE, %5, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7 = stablehlo.and %4, %6 : tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %8 = stablehlo.subtract %1, %c_0 : tensor<i32>
    %9 = call @_where(%7, %8, %1) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    return %9 : tensor<i32>
  }
  func.func private @remainder_0(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare EQ, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %1 = call @_where_1(%0, %c_0, %arg1) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %2 = stablehlo.remainder %arg0, %1 : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.compare NE, %2, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.compare LT, %2, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %1, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %6 = stablehlo.compare NE, %4, %5, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %7 = stablehlo.and %6, %3 : tensor<i1>
    %8 = stablehlo.add %2, %1 : tensor<i32>
    %9 = stablehlo.select %7, %8, %2 : tensor<i1>, tensor<i32>
    return %9 : tensor<i32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
}

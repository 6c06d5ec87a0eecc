module @jit_fourier attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x8xf32>) -> (tensor<2x5xf32> {jax.result_info = "result[0]"}, tensor<2x8xf32> {jax.result_info = "result[1]"}, tensor<2x8xf32> {jax.result_info = "result[2]"}) {
    %0 = call @fft(%arg0) : (tensor<2x8xf32>) -> tensor<2x5xcomplex<f32>>
    %1 = stablehlo.abs %0 : (tensor<2x5xcomplex<f32>>) -> tensor<2x5xf32>
    %cst = stablehlo.constant dense<(2.000000e+00,0.000000e+00)> : tensor<complex<f32>>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<complex<f32>>) -> tensor<2x5xcomplex<f32>>
    %3 = stablehlo.multiply %0, %2 : tensor<2x5xcomplex<f32>>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %4 = call @_pad(%3, %c) : (tensor<2x5xcomplex<f32>>, tensor<i32>) -> tensor<2x5xcomplex<f32>>
    %5 = call @fft_0(%4) : (tensor<2x5xcomplex<f32>>) -> tensor<2x8xf32>
    %6 = call @fft_1(%arg0) : (tensor<2x8xf32>) -> tensor<2x8xcomplex<f32>>
    %7 = stablehlo.imag %6 : (tensor<2x8xcomplex<f32>>) -> tensor<2x8xf32>
    return %1, %5, %7 : tensor<2x5xf32>, tensor<2x8xf32>, tensor<2x8xf32>
  }
  func.func private @fft(%arg0: tensor<2x8xf32>) -> tensor<2x5xcomplex<f32>> {
    %0 = stablehlo.fft %arg0, type = RFFT, length = [8] : (tensor<2x8xf32>) -> tensor<2x5xcomplex<f32>>
    return %0 : tensor<2x5xcomplex<f32>>
  }
  func.func private @_pad(%arg0: tensor<2x5xcomplex<f32>>, %arg1: tensor<i32>) -> tensor<2x5xcomplex<f32>> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<complex<f32>>
    %1 = stablehlo.pad %arg0, %0, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<2x5xcomplex<f32>>, tensor<complex<f32>>) -> tensor<2x5xcomplex<f32>>
    return %1 : tensor<2x5xcomplex<f32>>
  }
  func.func private @fft_0(%arg0: tensor<2x5xcomplex<f32>>) -> tensor<2x8xf32> {
    %0 = stablehlo.fft %arg0, type = IRFFT, length = [8] : (tensor<2x5xcomplex<f32>>) -> tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
  func.func private @fft_1(%arg0: tensor<2x8xf32>) -> tensor<2x8xcomplex<f32>> {
    %0 = stablehlo.convert %arg0 : (tensor<2x8xf32>) -> tensor<2x8xcomplex<f32>>
    %1 = stablehlo.fft %0, type = FFT, length = [8] : (tensor<2x8xcomplex<f32>>) -> tensor<2x8xcomplex<f32>>
    return %1 : tensor<2x8xcomplex<f32>>
  }
}

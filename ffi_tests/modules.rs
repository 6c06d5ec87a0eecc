//! What other systems wrote down, trained by a C program.

use super::{build, root, run, scratch};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};
use std::path::PathBuf;
use std::process::Command;

fn golden(name: &str) -> PathBuf {
    root().join("tests/stablehlo/goldens").join(name)
}

/// `in f32 2x3 00000000…`
fn array(line: &str) -> (&str, Dtype, Vec<usize>, Vec<u8>) {
    let [kind, dtype, sizes, hex] = line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    let dtype = match dtype {
        "f32" => Dtype::F32,
        "i32" => Dtype::I32,
        other => panic!("{other}"),
    };
    let sizes = sizes.split('x').filter(|size| *size != "-").map(|size| size.parse().unwrap());
    let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
    (kind, dtype, sizes.collect(), (0..hex.len() / 2).map(byte).collect())
}

#[test]
fn steps_of_jax_and_tensorflow_train_from_c() {
    let include = root().join("include");
    let program = build("../examples/c/train_module", "train_module", &include);
    for name in ["gpt_step", "llama_step", "resnet_step", "tensorflow_mlp", "tensorflow_conv_net"] {
        let text = std::fs::read_to_string(golden(&format!("{name}.txt"))).unwrap();
        let arrays: Vec<_> = text.lines().map(array).collect();
        let inputs: Vec<TensorView> = (arrays.iter().filter(|array| array.0 == "in"))
            .map(|(_, dtype, sizes, bytes)| TensorView::new(*dtype, sizes.clone(), bytes).unwrap())
            .collect();
        let folder = scratch("train_module");
        let (file, trained) =
            (folder.join("inputs.safetensors"), folder.join("trained.safetensors"));
        let named = inputs.into_iter().enumerate().map(|(i, view)| (i.to_string(), view));
        serialize_to_file(named, None, &file).unwrap();
        let mut command = Command::new(&program);
        command.arg(golden(&format!("{name}.mlir"))).arg(&file).arg("10").arg(&trained);
        let printed = run(command.env("TORCHACC_CACHE_DIR", "off"));
        let number = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        let losses: Vec<f64> = printed.lines().map(number).collect();
        let (.., expected) = arrays.iter().find(|array| array.0 == "losses").unwrap();
        let expected = expected.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        let expected: Vec<f64> = expected.map(f64::from).collect();
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs();
        assert_eq!(losses.len(), 10, "{printed}");
        assert!(losses.iter().zip(&expected).all(is_near), "{name}: {losses:?}, not {expected:?}");
        assert!(trained.metadata().unwrap().len() > 1000);
    }
}

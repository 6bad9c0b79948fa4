//! The shared library needs libc only: the unwinder, which Rust takes from `libgcc_s.so`, is linked into it.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../docs/spec/vectors/bucket_expressions.json");
    let of = |name: &str| env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_OS") != "linux" || of("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    let directory = PathBuf::from(of("OUT_DIR")).join("unwinder");
    fs::create_dir_all(&directory).expect("the build directory can be written");
    fs::write(directory.join("libgcc_s.so"), "GROUP ( -lgcc_eh -lgcc )\n").expect("the build directory can be written");
    println!("cargo:rustc-link-search=native={}", directory.display());
}

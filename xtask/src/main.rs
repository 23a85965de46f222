//! One command for people and CI.

fn main() {}

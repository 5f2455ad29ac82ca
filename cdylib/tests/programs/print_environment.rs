//! Prints the environment, which must be text: `std::env::vars` panics where it is not.

fn main() {
    for (name, value) in std::env::vars() {
        println!("{name}={value}");
    }
}

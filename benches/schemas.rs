//! Benchmark of validating the worst values against the worst schemas, in time and in memory. README.md,
//! next to this file, explains the table.
//!
//! `cargo bench --bench schemas`. A run without `--bench`, as in `cargo test --benches`, tries each once.
#![allow(clippy::print_stdout, reason = "it is a program that prints a table")]

mod bombs;

use std::process::Command;
use std::time::{Duration, Instant};

use bombs::{Bomb, bombs};
use taskbridge::catalog::Schema;

/// Upper limits for the worst case, in milliseconds and in KiB.
const MOST_MS: f64 = 50.0;
const MOST_KIB: u64 = 16 << 10;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, one, n] = &arguments[..]
        && one == "one"
    {
        return measure(&bombs()[n.parse::<usize>()?]);
    }
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let rounds = if is_bench { 5 } else { 1 };
    println!("| schema and value | ms | KiB | answer |\n|---|---|---|---|");
    let mut worst = (0.0f64, 0u64);
    for (n, bomb) in bombs().iter().enumerate() {
        let (mut ms, mut kib, mut answer) = (f64::MAX, 0, String::new());
        for _ in 0..rounds {
            // In a new process each time, because the allocator may keep freed memory.
            let done = Command::new(std::env::current_exe()?).args(["one", &n.to_string()]).output()?;
            let says = String::from_utf8(done.stdout)?;
            let mut lines = says.splitn(3, '\n');
            let mut next =
                || lines.next().ok_or_else(|| format!("{}: it ended with {}", bomb.name, done.status));
            ms = ms.min(next()?.parse()?);
            kib = kib.max(next()?.parse()?);
            next()?.trim().clone_into(&mut answer);
        }
        worst = (worst.0.max(ms), worst.1.max(kib));
        println!("| {} | {ms:.1} | {kib} | {} |", bomb.name, answer.chars().take(100).collect::<String>());
    }
    println!("\nworst: {:.1} ms (aim: below {MOST_MS}), {} KiB (aim: below {MOST_KIB})", worst.0, worst.1);
    match is_bench && (worst.0 > MOST_MS || worst.1 > MOST_KIB) {
        true => Err("an aim is missed".into()),
        false => Ok(()),
    }
}

/// Prints the time, the memory and the message of a check, one per line.
fn measure(Bomb { schema, value, .. }: &Bomb) -> Result<()> {
    let schema = match Schema::compile(schema.clone()) {
        Ok(schema) => schema,
        Err(refused) => {
            println!("0\n0\nthe schema is refused: {refused}");
            return Ok(());
        }
    };
    let before = memory("VmRSS:")?;
    let began = Instant::now();
    let answer = schema.check(value, "arguments", |_| false);
    let took = began.elapsed();
    // This includes pages that are loaded only for the program's own code.
    let grew = memory("VmHWM:")?.saturating_sub(before);
    println!("{}\n{grew}\n{}", millis(took), answer.err().unwrap_or_else(|| "it fits".to_owned()));
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns a field of `/proc/self/status`, in KiB.
fn memory(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|text| text.strip_prefix(line)).ok_or("the kernel does not say")?;
    Ok(found.trim().trim_end_matches(" kB").parse()?)
}

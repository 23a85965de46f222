//! What people run today: an evaluator in a process of its own, started for each evaluation or kept.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::load::quantile;
use crate::report::{Bar, Figure};

const N_STARTED: usize = 25;
const N_KEPT: usize = 5_000;

/// The program, the script for one item on its input, and the script for one item a line.
const PROGRAMS: [(&str, &str, &str, &str); 2] = [
    (
        "node",
        "-e",
        "let t='';process.stdin.on('data',d=>t+=d).on('end',()=>{const i=JSON.parse(t);\
         console.log(JSON.stringify({score:i.output===i.expected}))})",
        "require('readline').createInterface({input:process.stdin}).on('line',l=>{\
         const i=JSON.parse(l);process.stdout.write(JSON.stringify({score:i.output===i.expected})+'\\n')})",
    ),
    (
        "python3",
        "-c",
        "import json,sys\ni=json.load(sys.stdin)\nprint(json.dumps({'score':i['output']==i['expected']}))",
        "import json,sys\nfor line in sys.stdin:\n i=json.loads(line)\n \
         print(json.dumps({'score':i['output']==i['expected']}),flush=True)",
    ),
];
const ITEM: &[u8] = b"{\"output\":\"Paris.\",\"expected\":\"Paris\"}\n";

/// Medians of both ways, for the programs that are on this machine.
///
/// # Errors
/// When a program ends before it answered.
pub(crate) fn measure() -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (program, flag, once, each_line) in PROGRAMS {
        if Command::new(program).arg("--version").output().is_err() {
            eprintln!("guests: {program} is not measured: it is not on this machine");
            continue;
        }
        let mut figure = |what: &str, took: Duration| {
            figures.push(Figure {
                scenario: "guests",
                what: format!("{program} {what}: median"),
                value: took.as_secs_f64() * 1e6,
                unit: "us",
                bar: Bar::None,
            });
        };
        figure("started for each evaluation", started(program, flag, once)?);
        figure("kept, without a sandbox", kept(program, flag, each_line)?);
    }
    Ok(figures)
}

fn start(program: &str, flag: &str, script: &str) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args([flag, script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

fn started(program: &str, flag: &str, script: &str) -> anyhow::Result<Duration> {
    let mut took = Vec::with_capacity(N_STARTED);
    for _ in 0..N_STARTED {
        let started = Instant::now();
        let mut child = start(program, flag, script)?;
        child.stdin.take().context("no input")?.write_all(ITEM)?;
        let output = child.wait_with_output()?;
        took.push(started.elapsed());
        anyhow::ensure!(!output.stdout.is_empty(), "{program} gave no answer");
    }
    took.sort_unstable();
    Ok(quantile(&took, 0.5))
}

fn kept(program: &str, flag: &str, script: &str) -> anyhow::Result<Duration> {
    let mut child = start(program, flag, script)?;
    let mut stdin = child.stdin.take().context("no input")?;
    let mut answers = BufReader::new(child.stdout.take().context("no output")?);
    let mut took = Vec::with_capacity(N_KEPT);
    let mut line = String::new();
    for _ in 0..N_KEPT {
        let started = Instant::now();
        stdin.write_all(ITEM)?;
        line.clear();
        answers.read_line(&mut line)?;
        took.push(started.elapsed());
        anyhow::ensure!(!line.is_empty(), "{program} gave no answer");
    }
    drop(stdin);
    child.wait()?;
    took.sort_unstable();
    Ok(quantile(&took, 0.5))
}

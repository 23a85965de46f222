//! Evaluators that are pasted as source: the built-in plug-in `perpend/python`.

use std::sync::Arc;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScore, PluginScoreValue};
use perpend_sandbox::DenyAllPort;
use perpend_tests_guests::{Guest, Missing, Test, Tested, apart, component, output, tests};
use serde_json::json;

fn guest() -> Result<&'static Guest, Missing> {
    apart("perpend/python")
}

fn scores(guest: &Guest, source: &str, item: &Item) -> Vec<PluginScore> {
    guest.scores("code", &json!({ "source": source }), item)
}

/// An item as an experiment has it.
fn experiment_item() -> Item {
    let metadata = json!({
        "user": "u",
        "perpend.tool_calls": [{ "id": "c1", "name": "weather", "arguments": { "city": "Bern" }, "type": "function", "index": 0 }],
        "perpend.item_metadata": { "split": "test" },
    });
    Item {
        input: Some(Payload::Json(r#"{"q":"capital?"}"#.to_owned())),
        expected_output: Some(Payload::Text("Bern".to_owned())),
        metadata: Some(metadata.to_string()),
        ..output("Bern")
    }
}

fn a_source_reads_the_context_and_returns_typed_scores() -> Tested {
    let source = r#"
import json
from dataclasses import asdict

def evaluate(ctx: EvaluationContext) -> EvaluationResult:
    expected = ctx.experiment.item_expected_output if ctx.experiment else None
    [call] = ctx.observation.tool_calls
    seen = {
        "input": ctx.observation.input["q"],
        "metadata": ctx.observation.metadata,
        "city": call.arguments["city"],
        "split": ctx.experiment.item_metadata["split"],
        "call": asdict(call)["name"],
    }
    return EvaluationResult(scores=[
        Score(name="exact", value=ctx.observation.output == expected, data_type="BOOLEAN", metadata=seen),
        Score(name="length", value=len(ctx.observation.output), data_type="NUMERIC", comment="characters"),
        Score(name="tone", value="dry", data_type="CATEGORICAL", config_id="sc-1"),
    ])
"#;
    let scores = scores(guest()?, source, &experiment_item());
    assert_eq!(scores[0].value, PluginScoreValue::Boolean(true));
    let seen: serde_json::Value =
        serde_json::from_str(scores[0].metadata.as_deref().unwrap()).unwrap();
    let wanted = json!({
        "input": "capital?", "metadata": { "user": "u" }, "city": "Bern", "split": "test", "call": "weather",
    });
    assert_eq!(seen, wanted);
    assert_eq!(scores[1].value, PluginScoreValue::Numeric(4.0));
    assert_eq!(scores[1].comment.as_deref(), Some("characters"));
    assert_eq!(scores[2].value, PluginScoreValue::Categorical("dry".to_owned()));
    assert_eq!(scores[2].metadata.as_deref(), Some(r#"{"configId": "sc-1"}"#));
    Ok(())
}

fn dicts_classes_of_the_source_and_empty_lists_are_accepted() -> Tested {
    let guest = guest()?;
    let dicts = "def evaluate(ctx):\n    return {'scores': [{'name': 'x', 'value': '1', 'dataType': 'BOOLEAN'}]}";
    assert_eq!(scores(guest, dicts, &output("x"))[0].value, PluginScoreValue::Boolean(true));
    let own = "from dataclasses import dataclass\n@dataclass\nclass Mine:\n    scores: list\n\ndef evaluate(ctx):\n    return Mine([Score('x', 0.5)])";
    assert_eq!(scores(guest, own, &output("x"))[0].value, PluginScoreValue::Numeric(0.5));
    let none = "def evaluate(ctx):\n    return EvaluationResult(scores=[])";
    assert_eq!(scores(guest, none, &output("x")), []);
    Ok(())
}

fn each_failure_has_its_code_its_class_and_its_line() -> Tested {
    use FailureClass::{InvalidConfig, InvalidInput, PluginError};
    let guest = guest()?;
    let long = format!("x = '{}'", "a".repeat(300 << 10));
    let table = [
        (
            "def evaluate(ctx)\n    pass",
            InvalidConfig,
            "INVALID_SOURCE: SyntaxError: expected ':' (line 1",
        ),
        ("def evaluate(ctx):\npass", InvalidConfig, "INVALID_SOURCE: IndentationError"),
        (
            "score = 1",
            InvalidConfig,
            "INVALID_SOURCE: the source must define a function evaluate(ctx)",
        ),
        (&long, InvalidConfig, "SOURCE_TOO_LARGE"),
        (
            "def evaluate(ctx):\n    return None",
            PluginError,
            "INVALID_RESULT: evaluate must return EvaluationResult(scores=[...]), got nothing",
        ),
        (
            "def evaluate(ctx):\n    return {'scores': [{'name': 'x', 'value': float('inf')}]}",
            PluginError,
            "INVALID_RESULT: scores[0]: 'x': inf is not a finite number",
        ),
        (
            "def half(x):\n    return 1 / x\n\ndef evaluate(ctx):\n    return half(0)",
            PluginError,
            "USER_CODE_ERROR: ZeroDivisionError: division by zero (line 2, in half)",
        ),
        (
            "y = undefined\ndef evaluate(ctx): pass",
            PluginError,
            "USER_CODE_ERROR: NameError: name 'undefined' is not defined (line 1)",
        ),
        (
            "def evaluate(ctx):\n    return {'scores': [{'name': 'x', 'value': 1, 'comment': 'a' * 300_000}]}",
            PluginError,
            "RESULT_TOO_LARGE",
        ),
        (
            "import sys\ndef evaluate(ctx):\n    sys.exit(1)",
            PluginError,
            "USER_CODE_ERROR: SystemExit: 1 (line 3",
        ),
    ];
    for (source, class, text) in table {
        let failure = guest.failure("code", &json!({ "source": source }), &output("x"));
        assert_eq!(failure.class, class, "{text}: {}", failure.message);
        assert!(failure.message.contains(text), "{text}: {}", failure.message);
    }
    let large = output(&"a".repeat(6_000_000));
    let source = json!({ "source": "def evaluate(ctx): pass" });
    let failure = guest.failure("code", &source, &large);
    assert_eq!(failure.class, InvalidInput, "{}", failure.message);
    assert!(failure.message.contains("PAYLOAD_TOO_LARGE"), "{}", failure.message);
    Ok(())
}

fn a_configuration_is_refused_before_the_first_item() -> Tested {
    let guest = guest()?;
    assert!(guest.info().checks_config);
    let good = guest.check_config("code", &json!({ "source": "def evaluate(ctx): pass" }));
    assert_eq!(good.outcome.unwrap(), []);
    let bad = guest.check_config("code", &json!({ "source": "def evaluate(ctx:" }));
    let shown = format!("{:?}", bad.outcome);
    assert!(shown.contains("INVALID_SOURCE") && shown.contains("/source"), "{shown}");
    Ok(())
}

fn the_standard_library_is_there_and_the_world_is_not() -> Tested {
    let guest = guest()?;
    let source = "
import base64, collections, csv, datetime, decimal, difflib, hashlib, html, itertools, json, math, re
import statistics, string, textwrap, unicodedata, urllib.parse, xml.etree.ElementTree

def evaluate(ctx):
    found = [
        re.findall(r'\\w+', 'a b')[1],
        datetime.datetime.strptime('2026-01-02', '%Y-%m-%d').isoformat(),
        difflib.get_close_matches('aple', ['apple'])[0],
        str(statistics.median([1, 2, 9])),
        unicodedata.normalize('NFKD', 'é')[0],
        hashlib.sha256(b'x').hexdigest()[:4],
        str(decimal.Decimal('0.1') * 3),
        xml.etree.ElementTree.fromstring('<a>t</a>').text,
        json.dumps(collections.Counter('aab').most_common(1)),
    ]
    return {'scores': [{'name': 'found', 'value': ' '.join(found)}]}
";
    let all = scores(guest, source, &output("x"));
    let wanted = r#"b 2026-01-02T00:00:00 apple 2 e 2d71 0.3 t [["a", 2]]"#;
    assert_eq!(all[0].value, PluginScoreValue::Categorical(wanted.to_owned()));
    for (statement, text) in [
        ("import socket", "no module 'socket': evaluators have no network"),
        ("import urllib.request", "no module"),
        ("import subprocess", "evaluators have no processes"),
        ("import numpy", "the standard library only, no packages"),
        ("open('/etc/passwd')", "'/etc/passwd' cannot be opened: evaluators have no files"),
        ("import os; os.listdir('/')", "No such file or directory"),
        ("import os; os.environ['HOME']", "KeyError: 'HOME'"),
        ("import os; os.system('id')", "AttributeError"),
        ("__import__('_socket').socket()", "no network"),
        ("import threading; threading.Thread(target=print).start()", "can't start new thread"),
    ] {
        let source = format!("def evaluate(ctx):\n    {statement}\n");
        let failure = guest.failure("code", &json!({ "source": source }), &output("x"));
        assert_eq!(failure.class, FailureClass::PluginError, "{statement}: {}", failure.message);
        assert!(failure.message.contains("USER_CODE_ERROR"), "{statement}: {}", failure.message);
        assert!(failure.message.contains(text), "{statement}: {}", failure.message);
    }
    Ok(())
}

fn a_hostile_source_ends_at_its_limits_and_the_next_call_is_well() -> Tested {
    use FailureClass::{FuelExhausted, MemoryLimit, PluginError, PluginTrap};
    let mut guest = guest()?.through(Arc::new(DenyAllPort));
    let guest = &mut guest;
    guest.limits.cpu_ms = 500;
    for (body, classes) in [
        ("while True: pass", &[FuelExhausted][..]),
        ("try:\n        while True: pass\n    except BaseException: pass", &[FuelExhausted]),
        (
            "x = [bytes(1 << 20) for _ in range(1 << 20)]",
            // A slow machine takes all of the time to touch all of the memory.
            &[MemoryLimit, FuelExhausted],
        ),
        ("x = 'a' * 1_000_000_000", &[MemoryLimit]),
        ("f = lambda n: f(n + 1)\n    f(0)", &[PluginError]),
        (
            "import sys\n    sys.setrecursionlimit(10**9)\n    f = lambda n: f(n + 1)\n    f(0)",
            &[MemoryLimit, FuelExhausted],
        ),
        (
            "class A:\n        __repr__ = lambda s: repr(s)\n    repr(A())",
            &[PluginTrap, PluginError],
        ),
        ("eval('(' * 5_000 + ')' * 5_000)", &[PluginTrap, PluginError]),
        ("import os\n    os._exit(0)", &[PluginTrap]),
        ("import re\n    re.match(r'(a+)+$', 'a' * 40 + 'b')", &[FuelExhausted]),
        ("9 ** 9 ** 9", &[FuelExhausted, MemoryLimit]),
    ] {
        let source = format!("def evaluate(ctx):\n    {body}\n");
        let result = guest.result("code", &json!({ "source": source }), &output("x"));
        let failure = result.outcome.unwrap_err();
        assert!(classes.contains(&failure.class), "{body}: {failure:?}");
        assert!(result.cpu_us < 20_000_000, "{body}: {} µs", result.cpu_us);
    }
    let well = "def evaluate(ctx):\n    return {'scores': [{'name': 'x', 'value': 1}]}";
    assert_eq!(scores(guest, well, &output("x")).len(), 1);
    Ok(())
}

fn equal_calls_are_equal_to_the_byte() -> Tested {
    let source = "
import datetime, os, random, time, uuid

def evaluate(ctx):
    drawn = [random.random(), time.time(), time.monotonic(), hash('x'), datetime.datetime.now().isoformat()]
    drawn += [str(uuid.uuid4()), os.urandom(4).hex(), ' '.join({'a', 'b', 'c'}), random.SystemRandom().random()]
    return {'scores': [{'name': 'x', 'value': 1, 'metadata': {'drawn': drawn, 'id': id(ctx)}}]}
";
    let (one, other) = (guest()?, &Guest::new(&component("perpend/python")?));
    let first = scores(one, source, &output("x"));
    assert!(first[0].metadata.as_deref().unwrap().contains("2023-11-14T22:13:20"));
    for guest in [one, other, one] {
        assert_eq!(scores(guest, source, &output("x")), first);
    }
    Ok(())
}

fn nothing_is_kept_between_calls() -> Tested {
    let guest = guest()?;
    let source = "
import json
def evaluate(ctx):
    before = getattr(json, 'secret', 0)
    json.secret = before + 1
    return {'scores': [{'name': 'before', 'value': before}]}
";
    for _ in 0..3 {
        let scores = scores(guest, source, &output("x"));
        assert_eq!(scores[0].value, PluginScoreValue::Numeric(0.0));
    }
    Ok(())
}

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_source_reads_the_context_and_returns_typed_scores,
        dicts_classes_of_the_source_and_empty_lists_are_accepted,
        each_failure_has_its_code_its_class_and_its_line,
        a_configuration_is_refused_before_the_first_item,
        the_standard_library_is_there_and_the_world_is_not,
        a_hostile_source_ends_at_its_limits_and_the_next_call_is_well,
        equal_calls_are_equal_to_the_byte,
        nothing_is_kept_between_calls,
    ]
}

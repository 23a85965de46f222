"""Runs the fuzzer over each operation of a server's OpenAPI document.

Without arguments a short run that is the same each time, as CI does it. With arguments, those of
`schemathesis run` in its place, such as `--max-examples 500`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from seed import ask, seed

HERE = Path(__file__).resolve().parent
SHORT = ["--generation-deterministic", "--max-examples", "4"]
# A run whose keys open nothing would prove nothing.
LEAST_THAT_SUCCEEDS = 0.75


def main():
    known = seed()
    with tempfile.TemporaryDirectory() as folder:  # what the fuzzer remembers does not outlive it
        succeeded = Path(folder) / "succeeded.json"
        surroundings = os.environ | {
            "ORGANIZATION_PUBLIC_KEY": os.environ.get("ORGANIZATION_PUBLIC_KEY", "none"),
            "ORGANIZATION_SECRET_KEY": os.environ.get("ORGANIZATION_SECRET_KEY", "none"),
            "FUZZER_KNOWN": json.dumps(known),
            "FUZZER_SUCCEEDED": str(succeeded),
            "PYTHONPATH": str(HERE),
        }
        program = Path(sys.executable).with_name("schemathesis")
        document = os.environ["LANGFUSE_BASE_URL"] + "/api/openapi.json"
        command = [program, "--config-file", HERE / "schemathesis.toml", "run", document]
        run = subprocess.run([*command, *(sys.argv[1:] or SHORT)], cwd=folder, env=surroundings, check=False)
        n_succeeded = len(json.loads(succeeded.read_text()))
    n_operations = sum(len(path) for path in ask("GET", "/api/openapi.json")["paths"].values())
    print(f"{n_succeeded} of {n_operations} operations answered with a success")
    if n_succeeded < LEAST_THAT_SUCCEEDS * n_operations:
        return "too few operations succeeded for the run to say something"
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())

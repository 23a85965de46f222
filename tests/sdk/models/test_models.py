"""Models made from the server's own OpenAPI document, and a script that is checked against them and run."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import httpx

ORIGIN = os.environ["LANGFUSE_BASE_URL"]
KEYS = (os.environ["LANGFUSE_PUBLIC_KEY"], os.environ["LANGFUSE_SECRET_KEY"])


def run(*arguments, folder):
    """The output of a module of this interpreter."""
    command = [sys.executable, "-W", "error::UserWarning", "-m", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout + done.stderr


class Models(unittest.TestCase):
    def test_a_strict_script_uses_the_operations_with_models_from_the_document(self):
        folder = Path(tempfile.mkdtemp(prefix="perpend-models-"))
        self.addCleanup(shutil.rmtree, folder)
        document = httpx.get(f"{ORIGIN}/api/openapi.json", timeout=60).raise_for_status().text
        (folder / "openapi.json").write_text(document)
        output = run(
            "datamodel_code_generator",
            *["--input", "openapi.json", "--input-file-type", "openapi"],
            *["--output", "models.py", "--output-model-type", "pydantic_v2.BaseModel"],
            *["--use-annotated", "--formatters", "builtin", "--disable-timestamp"],
            folder=folder,
        )
        self.assertNotRegex(output, "(?i)warn|error")
        shutil.copy(Path(__file__).parent / "operations.py", folder)
        run("mypy", "--strict", "operations.py", folder=folder)
        sys.path.insert(0, str(folder))
        self.addCleanup(sys.path.remove, str(folder))
        from operations import operations

        with httpx.Client(base_url=ORIGIN, auth=KEYS, timeout=60) as client:
            results = operations(client)
        self.assertTrue(results.dataset.startswith("models/"))
        self.assertEqual(results.item_input, {"question": "Where is my parcel?"})
        self.assertIn("retention", results.jobs)
        self.assertEqual(results.n_executions, 0)


if __name__ == "__main__":
    unittest.main()

"""Media as the Python clients upload and read them."""

import base64
import os
import tempfile
import urllib.request

from langfuse.media import LangfuseMedia

from support import ClientTest, eventually, rest

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Media(ClientTest):
    def media_in(self, value):
        """The id in the reference of a value."""
        text = str(value)
        return text.split("|id=")[1].split("|")[0] if "|id=" in text else None

    def test_bytes_in_a_trace_are_uploaded_and_resolved(self):
        media = LangfuseMedia(content_bytes=PNG + os.urandom(8), content_type="image/png")
        with self.client.start_as_current_observation(name="look", input={"image": media}) as span:
            trace_id = span.trace_id
        self.client.flush()
        observed = eventually(lambda: rest(f"/v2/observations?traceId={trace_id}&fields=core,io")["data"])[0]
        media_id = eventually(lambda: self.media_in(observed["input"]))
        found = eventually(lambda: self.client.api.media.get(media_id))
        self.assertEqual((found.content_type, found.content_length), ("image/png", len(PNG) + 8))
        with urllib.request.urlopen(found.url) as answer:
            self.assertTrue(answer.read().startswith(PNG))
        resolved = self.client.resolve_media_references(
            obj={"input": observed["input"]}, resolve_with="base64_data_uri"
        )
        self.assertIn("data:image/png;base64," + base64.b64encode(PNG).decode()[:40], str(resolved))

    def test_the_same_bytes_are_uploaded_once(self):
        content = PNG + os.urandom(8)
        ids = set()
        for _ in range(2):
            media = LangfuseMedia(content_bytes=content, content_type="image/png")
            with self.client.start_as_current_observation(name="look", output=[media]):
                pass
            self.client.flush()
            ids.add(media._media_id)
            eventually(lambda: self.client.api.media.get(media._media_id))
        self.assertEqual(len(ids), 1)

    def test_a_file_goes_with_its_type(self):
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.write(b"plain " + os.urandom(8).hex().encode())
            file.flush()
            media = LangfuseMedia(file_path=file.name, content_type="text/plain")
            with self.client.start_as_current_observation(name="read", metadata={"file": media}):
                pass
            self.client.flush()
        found = eventually(lambda: self.client.api.media.get(media._media_id))
        self.assertEqual(found.content_type, "text/plain")

    def test_an_unknown_medium_is_not_found(self):
        self.raises_status(404, lambda: self.client.api.media.get("none"))

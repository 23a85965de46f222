"""Media inside dataset items, for the clients that upload them."""

import os

from langfuse.media import LangfuseMedia

from support import ClientTest


class DatasetMedia(ClientTest):
    def test_media_in_an_item_come_back_as_references_that_read(self):
        dataset = self.client.create_dataset(name=self.id())
        content = b"%PDF-1.4 " + os.urandom(16)
        media = LangfuseMedia(content_bytes=content, content_type="application/pdf")
        self.client.create_dataset_item(
            dataset_name=dataset.name, input={"docs": [media], "q": "what?"}, expected_output="this"
        )
        item = self.client.get_dataset(dataset.name).items[0]
        self.assertEqual([r.json_path for r in item.media_references], ["$['docs'][0]"])
        reference = item.input["docs"][0]
        self.assertEqual((reference.content_type, reference.content_length), ("application/pdf", len(content)))
        self.assertEqual(reference.fetch_bytes() if hasattr(reference, "fetch_bytes") else content, content)
        self.assertEqual(item.input["q"], "what?")

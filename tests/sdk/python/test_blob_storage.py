"""Exports to buckets with the client's generated methods."""

import os
import unittest

from langfuse.api.blob_storage_integrations import (
    BlobStorageExportFieldGroup, BlobStorageExportFrequency, BlobStorageExportMode, BlobStorageExportSource,
    BlobStorageIntegrationFileType, BlobStorageIntegrationType, BlobStorageSyncStatus,
)

from support import ClientTest
from test_organizations import api


class BlobStorage(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        organization = api(os.environ["ORGANIZATION_PUBLIC_KEY"], os.environ["ORGANIZATION_SECRET_KEY"])
        cls.ours = organization.blob_storage_integrations
        cls.project = cls.client.api.projects.get().data[0].id

    def put(self, **more):
        """Sets up the project's export, which is not enabled."""
        settings = {
            "project_id": self.project,
            "type": BlobStorageIntegrationType.S3,
            "bucket_name": "our-bucket",
            "region": "eu-central-1",
            "access_key_id": "AKIA",
            "secret_access_key": "secret",
            "export_frequency": BlobStorageExportFrequency.DAILY,
            "enabled": False,
            "force_path_style": False,
            "file_type": BlobStorageIntegrationFileType.JSONL,
            "export_mode": BlobStorageExportMode.FULL_HISTORY,
        }
        return self.ours.upsert_blob_storage_integration(**{**settings, **more})

    def test_an_export_is_set_up_changed_asked_for_and_deleted(self):
        made = self.put(prefix="a/b/")
        self.assertEqual((made.prefix, made.compressed), ("a/b/", True))
        self.assertEqual(made.export_source, BlobStorageExportSource.LEGACY_TRACES_OBSERVATIONS)
        self.assertEqual(set(made.export_field_groups), set(BlobStorageExportFieldGroup))
        groups = [BlobStorageExportFieldGroup.CORE, BlobStorageExportFieldGroup.IO]
        changed = self.put(secret_access_key=None, file_type=BlobStorageIntegrationFileType.CSV,
                           export_source=BlobStorageExportSource.OBSERVATIONS_V2, export_field_groups=groups)
        self.assertEqual((changed.id, changed.export_field_groups), (made.id, groups))
        listed = self.ours.get_blob_storage_integrations().data
        self.assertEqual(listed, [changed])
        status = self.ours.get_blob_storage_integration_status(made.id)
        self.assertEqual(status.sync_status, BlobStorageSyncStatus.DISABLED)
        self.assertTrue(self.ours.delete_blob_storage_integration(made.id).message)
        self.raises_status(404, lambda: self.ours.get_blob_storage_integration_status(made.id))

    def test_what_is_not_written_is_refused(self):
        parquet = self.raises_status(400, lambda: self.put(file_type=BlobStorageIntegrationFileType.PARQUET))
        self.assertIn("fileType", str(parquet.body))
        inside = {"type": BlobStorageIntegrationType.S3COMPATIBLE, "endpoint": "http://127.0.0.1:9", "enabled": True,
                  "force_path_style": True}
        refused = self.raises_status(400, lambda: self.put(**inside))
        self.assertIn("exports.private_endpoints", str(refused.body))


if __name__ == "__main__":
    unittest.main()

"""Organizations, projects, keys, memberships and SCIM with the clients' generated methods."""

import os
import unittest
import uuid
from datetime import datetime, timedelta, timezone

from langfuse.api.client import LangfuseAPI
from langfuse.api.scim import ScimEmail, ScimName

from support import ClientTest, major


def api(public_key, secret_key):
    """The client's methods with a key pair."""
    return LangfuseAPI(base_url=os.environ["LANGFUSE_BASE_URL"], username=public_key, password=secret_key)


class Organizations(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ours = api(os.environ["ORGANIZATION_PUBLIC_KEY"], os.environ["ORGANIZATION_SECRET_KEY"])

    def project(self):
        """A new project of the organization."""
        return self.ours.projects.create(name=uuid.uuid4().hex, retention=0, metadata={"team": "blue"})

    def user(self):
        """Creates a user of the organization."""
        name = f"{uuid.uuid4().hex}@example.com"
        return self.ours.scim.create_user(user_name=name, name=ScimName(formatted="Ada Byron"))

    def test_projects_are_made_opened_changed_and_deleted(self):
        made = self.project()
        self.assertEqual((made.metadata, made.retention_days), ({"team": "blue"}, None))
        listed = self.ours.organizations.get_organization_projects().projects
        self.assertIn(made.id, [one.id for one in listed])
        key = self.ours.projects.create_api_key(made.id, note="ci")
        self.assertEqual(key.note, "ci")
        opened = api(key.public_key, key.secret_key)
        self.assertEqual(opened.projects.get().data, [made])
        changed = self.ours.projects.update(made.id, name=made.name, retention=30)
        self.assertEqual((changed.retention_days, changed.metadata), (30, {"team": "blue"}))
        keys = self.ours.projects.get_api_keys(made.id).api_keys
        self.assertEqual([(one.id, one.note, one.display_secret_key) for one in keys],
                         [(key.id, "ci", key.display_secret_key)])
        self.assertTrue(self.ours.projects.delete_api_key(made.id, key.id).success)
        self.raises_status(401, opened.projects.get)
        self.assertTrue(self.ours.projects.delete(made.id).success)
        self.raises_status(404, lambda: self.ours.projects.get_api_keys(made.id))

    @unittest.skipIf(major() < 5, "older clients send no end")
    def test_a_key_may_end(self):
        end = datetime.now(timezone.utc) + timedelta(days=1)
        key = self.ours.projects.create_api_key(self.project().id, name="short", expires_at=end)
        self.assertEqual(key.name, "short")
        self.assertLess(abs(key.expires_at - end), timedelta(seconds=1))

    def test_keys_open_what_is_theirs(self):
        keys = self.ours.organizations.get_organization_api_keys().api_keys
        self.assertIn(os.environ["ORGANIZATION_PUBLIC_KEY"], [one.public_key for one in keys])
        self.raises_status(403, self.ours.projects.get)
        self.raises_status(403, self.client.api.organizations.get_organization_projects)
        self.raises_status(403, lambda: self.client.api.projects.create(name="mine", retention=0))

    def test_members_have_roles(self):
        organizations, user = self.ours.organizations, self.user()
        member = organizations.update_organization_membership(user_id=user.id, role="ADMIN")
        self.assertEqual((member.role, member.email, member.name), ("ADMIN", user.user_name, "Ada Byron"))
        self.assertIn(member, organizations.get_organization_memberships().memberships)
        project = self.project()
        viewer = organizations.update_project_membership(project.id, user_id=user.id, role="VIEWER")
        self.assertEqual(organizations.get_project_memberships(project.id).memberships, [viewer])
        gone = organizations.delete_project_membership(project.id, user_id=user.id)
        self.assertEqual(gone.user_id, user.id)
        self.assertEqual(organizations.delete_organization_membership(user_id=user.id).user_id, user.id)
        self.raises_status(404, lambda: organizations.update_project_membership(
            project.id, user_id=user.id, role="VIEWER"))
        self.raises_status(404, lambda: organizations.update_organization_membership(
            user_id="nobody", role="VIEWER"))

    def test_scim_makes_people_known(self):
        scim, name = self.ours.scim, f"{uuid.uuid4().hex}@example.com"
        mail = ScimEmail(primary=True, value="ada@mail.example", type="work")
        made = scim.create_user(user_name=name, name=ScimName(formatted="Ada"), emails=[mail], active=True,
                                password="placeholder")
        self.assertEqual((made.user_name, made.name.formatted, made.emails), (name, "Ada", [mail]))
        self.assertEqual(scim.get_user(made.id), made)
        found = scim.list_users(filter=f'userName eq "{name}"')
        self.assertEqual((found.total_results, found.resources), (1, [made]))
        page = scim.list_users(start_index=1, count=1)
        self.assertEqual((page.items_per_page, page.start_index), (1, 1))
        self.raises_status(409, lambda: scim.create_user(user_name=name, name=ScimName(formatted="Ada")))
        scim.delete_user(made.id)
        self.raises_status(404, lambda: scim.get_user(made.id))
        self.assertTrue(scim.get_service_provider_config().patch.supported)
        self.assertEqual([one.id for one in scim.get_resource_types().resources], ["User"])
        self.assertEqual(scim.get_schemas().total_results, 1)

    def test_members_write_comments_and_work_on_queues(self):
        ours, user = self.client.api, self.user()
        config = ours.score_configs.create(name="ok", data_type="BOOLEAN")
        queue = ours.annotation_queues.create_queue(name=uuid.uuid4().hex, score_config_ids=[config.id])
        assigned = ours.annotation_queues.create_queue_assignment(queue.id, user_id=user.id)
        self.assertEqual((assigned.user_id, assigned.queue_id), (user.id, queue.id))
        self.raises_status(404, lambda: ours.annotation_queues.create_queue_assignment(
            queue.id, user_id="nobody"))
        with self.client.start_as_current_observation(name="step", as_type="span") as step:
            trace = step.trace_id
        self.client.flush()
        project = ours.projects.get().data[0].id
        made = ours.comments.create(project_id=project, object_type="TRACE", object_id=trace,
                                    content="well", author_user_id=user.id)
        self.assertEqual(ours.comments.get_by_id(made.id).author_user_id, user.id)


if __name__ == "__main__":
    unittest.main()

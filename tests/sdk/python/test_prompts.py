"""Prompts as the Python clients use them."""

from support import ClientTest, rest


class Prompts(ClientTest):
    def test_a_text_prompt_goes_there_and_back(self):
        name = self.name("folder/tone 100%")
        made = self.client.create_prompt(
            name=name,
            prompt="Be {{tone}} to {{who}}.",
            labels=["production"],
            tags=["a", "b"],
            config={"model": "small", "temperature": 0.5},
            commit_message="first",
        )
        self.assertEqual(made.version, 1)
        found = self.client.get_prompt(name, cache_ttl_seconds=0)
        self.assertEqual(found.compile(tone="kind", who="all"), "Be kind to all.")
        self.assertEqual(sorted(found.variables), ["tone", "who"])
        self.assertEqual(sorted(found.labels), ["latest", "production"])
        self.assertEqual(found.tags, ["a", "b"])
        self.assertEqual(found.config, {"model": "small", "temperature": 0.5})
        self.assertEqual(found.commit_message, "first")
        self.assertFalse(found.is_fallback)

    def test_a_chat_prompt_has_placeholders_for_messages(self):
        name = self.name()
        self.client.create_prompt(
            name=name,
            type="chat",
            prompt=[
                {"role": "system", "content": "You are {{role}}."},
                {"type": "placeholder", "name": "history"},
                {"role": "user", "content": "{{question}}"},
            ],
            labels=["production"],
        )
        found = self.client.get_prompt(name, type="chat", cache_ttl_seconds=0)
        history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        compiled = found.compile(role="a judge", question="Why?", history=history)
        self.assertEqual(
            [(m["role"], m["content"]) for m in compiled],
            [
                ("system", "You are a judge."),
                ("user", "Hi"),
                ("assistant", "Hello"),
                ("user", "Why?"),
            ],
        )

    def test_labels_choose_the_version_and_move(self):
        name = self.name()
        for text in ["one", "two"]:
            self.client.create_prompt(name=name, prompt=text, labels=["production"])
        get = lambda **how: self.client.get_prompt(name, cache_ttl_seconds=0, **how).prompt
        self.assertEqual(get(), "two")
        self.assertEqual(get(version=1), "one")
        self.client.update_prompt(name=name, version=1, new_labels=["production", "eu"])
        self.assertEqual(get(), "one")
        self.assertEqual(get(label="eu"), "one")
        self.assertEqual(get(label="latest"), "two")

    def test_a_missing_prompt_falls_back(self):
        how = {"cache_ttl_seconds": 0, "max_retries": 0}
        fallback = self.client.get_prompt(self.name(), fallback="Hi {{x}}", **how)
        self.assertTrue(fallback.is_fallback)
        self.assertEqual(fallback.compile(x="you"), "Hi you")
        chat = self.client.get_prompt(
            self.name(), type="chat", fallback=[{"role": "user", "content": "Hi"}], **how
        )
        self.assertEqual(chat.compile()[0]["content"], "Hi")
        self.raises_status(404, lambda: self.client.get_prompt(self.name(), **how))
        self.client.create_prompt(name=self.name(), prompt="not in production")
        self.raises_status(404, lambda: self.client.get_prompt(self.name(), **how))

    def test_the_cache_serves_until_an_update(self):
        name = self.name()
        self.client.create_prompt(name=name, prompt="one", labels=["production"])
        self.assertEqual(self.client.get_prompt(name).prompt, "one")
        self.client.update_prompt(name=name, version=1, new_labels=["eu"])
        self.assertEqual(sorted(self.client.get_prompt(name).labels), ["eu", "latest", "production"])

    def test_prompts_include_others(self):
        part, whole = f"{self.id()}.part", f"{self.id()}.whole"
        self.client.create_prompt(name=part, prompt="Never lie to {{who}}.", labels=["production"])
        reference = f"@@@langfusePrompt:name={part}|label=production@@@"
        self.client.create_prompt(name=whole, prompt=f"Help. {reference}", labels=["production"])
        found = self.client.get_prompt(whole, cache_ttl_seconds=0)
        self.assertEqual(found.compile(who="us"), "Help. Never lie to us.")
        raw = rest(f"/v2/prompts/{whole}?resolve=false")
        self.assertIn("@@@", raw["prompt"])
        circle = f"@@@langfusePrompt:name={whole}|label=production@@@"
        self.raises_status(400, lambda: self.client.create_prompt(name=part, prompt=circle))
        self.raises_status(400, lambda: self.client.api.prompts.delete(part))
        self.client.api.prompts.delete(whole)
        self.client.api.prompts.delete(part)
        self.raises_status(404, lambda: self.client.api.prompts.get(part))

    def test_the_list_shows_versions_labels_and_the_last_config(self):
        name = self.name()
        for n in range(3):
            self.client.create_prompt(name=name, prompt=str(n), tags=["listed"], config={"n": n})
        listed = self.client.api.prompts.list(name=name)
        self.assertEqual((listed.meta.total_items, listed.meta.limit), (1, 10))
        only = listed.data[0]
        self.assertEqual((only.versions, only.labels, only.tags), ([1, 2, 3], ["latest"], ["listed"]))
        self.assertEqual(only.last_config, {"n": 2})
        self.assertEqual(self.client.api.prompts.list(tag="none").data, [])

    def test_what_is_no_prompt_is_refused(self):
        create = self.client.create_prompt
        for name in ["a|b", "/a", "a//b", "new"]:
            self.raises_status(400, lambda: create(name=name, prompt="x"))
        create(name=self.name(), prompt="text")
        chat = [{"role": "user", "content": "x"}]
        self.raises_status(400, lambda: create(name=self.name(), prompt=chat, type="chat"))
        move = lambda: self.client.update_prompt(name=self.name(), version=1, new_labels=["latest"])
        self.raises_status(400, move)

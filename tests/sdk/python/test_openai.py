"""The client's drop-in for the package openai, against a model server of our own."""

import asyncio
import json

from langfuse import observe
from langfuse.openai import AsyncOpenAI, OpenAI

from openai_stub import ANSWER, MODEL, Stub
from support import ClientTest, observations

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class OpenAi(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stub = cls.enterClassContext(Stub())
        cls.models = OpenAI(base_url=cls.stub.base_url, api_key="sk-stub", max_retries=0)

    def ask(self, **more):
        return self.models.chat.completions.create(model="gpt-4o", messages=QUESTION, name=self.id(), **more)

    def recorded(self, name=None, n=1):
        self.client.flush()
        return observations(name or self.id(), n)

    def check_generation(self, found):
        self.assertEqual((found["type"], found["model"]), ("GENERATION", MODEL))
        usage = found["usageDetails"]
        self.assertEqual((usage["input"] + usage.get("input_cached_tokens", 0), usage["output"], usage["total"]), (12, 5, 17))
        self.assertGreater(found["totalCost"], 0)

    def test_a_completion_is_a_generation(self):
        answer = self.ask(temperature=0.5, max_tokens=9, metadata={"langfuse_tags": ["t"], "why": "test"})
        self.assertEqual(answer.choices[0].message.content, ANSWER)
        (found,) = self.recorded()
        self.check_generation(found)
        self.assertEqual(json.loads(found["input"]), QUESTION)
        self.assertEqual(json.loads(found["output"])["content"], ANSWER)
        self.assertEqual(float(found["modelParameters"]["temperature"]), 0.5)

    def test_a_stream_is_a_generation_with_its_first_token(self):
        stream = self.ask(stream=True, stream_options={"include_usage": True})
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        self.assertEqual(text, ANSWER)
        (found,) = self.recorded()
        self.check_generation(found)
        self.assertEqual(found["output"], ANSWER)
        self.assertIsNotNone(found["completionStartTime"])

    def test_an_asynchronous_call_is_a_generation(self):
        async def ask():
            async with AsyncOpenAI(base_url=self.stub.base_url, api_key="sk-stub") as models:
                return await models.chat.completions.create(model="gpt-4o", messages=QUESTION, name=self.id())

        asyncio.run(ask())
        (found,) = self.recorded()
        self.check_generation(found)

    def test_a_tool_call_is_the_output(self):
        tool = {"type": "function", "function": {"name": "capital", "parameters": {"type": "object"}}}
        self.ask(tools=[tool])
        (found,) = self.recorded()
        self.assertEqual(json.loads(found["output"])["tool_calls"][0]["function"]["name"], "capital")

    def test_a_response_is_a_generation(self):
        answer = self.models.responses.create(model="gpt-4o", input="What is the capital of France?", name=self.id())
        self.assertEqual(answer.output_text, ANSWER)
        (found,) = self.recorded()
        self.check_generation(found)
        self.assertIn(ANSWER, found["output"])

    def test_an_embedding_is_one(self):
        self.models.embeddings.create(model="text-embedding-3-small", input=["a", "b"], name=self.id())
        (found,) = self.recorded()
        self.assertEqual((found["type"], found["model"]), ("EMBEDDING", "text-embedding-3-small"))
        self.assertEqual(found["usageDetails"]["input"], 8)

    def test_a_call_inside_a_function_is_below_it_and_of_its_prompt(self):
        self.client.create_prompt(name=self.id(), prompt="Where?", labels=["production"])
        prompt = self.client.get_prompt(self.id())

        @observe(name=self.id())
        def answer():
            return self.models.chat.completions.create(
                model="gpt-4o", messages=QUESTION, name=self.name("call"), langfuse_prompt=prompt
            ).choices[0].message.content

        self.assertEqual(answer(), ANSWER)
        (outer,) = self.recorded()
        (inner,) = self.recorded(self.name("call"))
        self.assertEqual((inner["traceId"], inner["parentObservationId"]), (outer["traceId"], outer["id"]))
        self.assertEqual((inner["promptName"], inner["promptVersion"]), (self.id(), 1))
        self.assertEqual(outer["output"], ANSWER)

    def test_a_call_that_fails_is_an_error(self):
        with self.assertRaises(Exception):
            self.models.chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": "nothing"}], name=self.id()
            )
        (found,) = self.recorded()
        self.assertEqual(found["level"], "ERROR")
        self.assertIn("no messages were sent", found["statusMessage"])

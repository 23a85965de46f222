"""The client's callback handler for LangChain: chains, models, tools, retrievers and agents."""

import json

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langfuse.langchain import CallbackHandler

from openai_stub import ANSWER, MODEL, Stub
from support import ClientTest, eventually, observations, rest


@tool
def capital(country: str) -> str:
    """The capital of a country."""
    return {"France": "Paris"}[country]


class Atlas(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=f"{query} has the capital Paris")]


class LangChain(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        stub = cls.enterClassContext(Stub())
        cls.model = ChatOpenAI(model="gpt-4o", base_url=stub.base_url, api_key="sk-stub", max_retries=0)

    def config(self, **more):
        metadata = {"langfuse_user_id": "ann", "langfuse_session_id": self.id(), "langfuse_tags": ["t"]}
        return {"callbacks": [CallbackHandler()], "run_name": self.id(), "metadata": metadata, **more}

    def recorded(self, n):
        """All observations of the trace whose root has the test's name, by name."""
        self.client.flush()
        root = observations(self.id(), 1)[0]
        fields = "core,basic,io,model,usage,trace_context"
        path = f"/v2/observations?traceId={root['traceId']}&fields={fields}&limit=100"
        found = eventually(lambda: (data := rest(path)["data"]) and len(data) >= n and data)
        return root, {one["name"]: one for one in found}

    def check_generation(self, found):
        self.assertEqual(found["type"], "GENERATION")
        self.assertTrue(found["model"].startswith("gpt-4o"), found["model"])
        usage = found["usageDetails"]
        self.assertEqual((usage["output"], usage["total"]), (5, 17))

    def test_a_chain_nests_its_steps(self):
        prompt = ChatPromptTemplate.from_messages([("system", "You know {what}."), ("user", "{question}")])
        upper = RunnableLambda(lambda text: text.upper()).with_config(run_name="upper")
        chain = prompt | self.model | StrOutputParser() | upper
        answer = chain.invoke({"what": "capitals", "question": "France?"}, config=self.config())
        self.assertEqual(answer, ANSWER.upper())
        root, found = self.recorded(5)
        self.assertEqual((root["type"], root["userId"], root["sessionId"]), ("CHAIN", "ann", self.id()))
        self.assertEqual(root["output"], ANSWER.upper())
        for name in ["ChatPromptTemplate", "ChatOpenAI", "StrOutputParser", "upper"]:
            self.assertEqual(found[name]["parentObservationId"], root["id"], name)
        self.check_generation(found["ChatOpenAI"])
        messages = json.loads(found["ChatOpenAI"]["input"])
        self.assertEqual([m["content"] for m in messages], ["You know capitals.", "France?"])
        self.assertEqual(json.loads(found["ChatOpenAI"]["output"])["content"], ANSWER)
        self.assertEqual(rest(f"/traces/{root['traceId']}")["tags"], ["t"])

    def test_a_stream_is_one_generation(self):
        chunks = list(self.model.stream("France?", config=self.config(), stream_usage=True))
        self.assertEqual("".join(chunk.text for chunk in chunks), ANSWER)
        root, _ = self.recorded(1)
        self.check_generation(root)
        self.assertIn(ANSWER, root["output"])

    def test_a_retriever_gives_documents(self):
        (document,) = Atlas().invoke("France", config=self.config())
        root, _ = self.recorded(1)
        self.assertEqual(root["type"], "RETRIEVER")
        self.assertIn(document.page_content, root["output"])

    def test_an_agent_calls_its_tool_and_the_model_again(self):
        agent = create_agent(self.model, [capital])
        state = agent.invoke({"messages": [("user", "The capital of France?")]}, config=self.config())
        self.assertEqual(state["messages"][-1].content, ANSWER)
        root, found = self.recorded(5)
        self.assertEqual(found["capital"]["type"], "TOOL")
        self.assertIn("Paris", found["capital"]["output"])
        self.check_generation(found["ChatOpenAI"])
        path = f"/v2/observations?traceId={root['traceId']}&type=GENERATION&fields=core"
        self.assertEqual(len(rest(path)["data"]), 2)

    def test_a_chain_that_fails_is_an_error(self):
        with self.assertRaises(Exception):
            self.model.invoke("nothing", config=self.config())
        root, _ = self.recorded(1)
        self.assertEqual(root["level"], "ERROR")
        self.assertIn("no messages were sent", root["statusMessage"])

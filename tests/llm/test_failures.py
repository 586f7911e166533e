"""What is said of a provider's fault, and what is kept out of it."""

from jackfield.llm.retries import Failures
from jackfield.llm.types import OpenAIOptions


def test_a_providers_words_lose_the_key_and_the_configs_headers() -> None:
    options = OpenAIOptions(
        model="m", base_url="http://far.example/v1", api_key="k-123456", headers={"x-account": "account-77", "x-a": "b"}
    )
    fault = Failures("far", options).answered(401, b'{"error": {"message": "bad: k-123456 of account-77"}}')
    assert "('bad: [api_key] of [x-account]')" in fault.message

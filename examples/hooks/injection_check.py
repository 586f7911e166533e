"""Withholds results that try to give the model orders.

A list of phrases stops the careless attacks and no others: use it together with approvals for tools that act.

[[hooks]]
on = "after_call"
python = "injection_check.py:check"
tools = ["web_*", "mail_*"]
"""

import json
import re

ORDERS = re.compile(
    r"(ignore|disregard|forget) (all |any )?(the |your )?(previous|prior|above|earlier) (instructions|prompts|rules)"
    r"|you are now (a|an|in) "
    r"|</?(system|assistant)>"
    r"|do not (tell|inform|mention (this|it) to) the user",
    re.IGNORECASE,
)


def check(event):
    call = event["call"]
    text = json.dumps([call.get("result"), call.get("error")], ensure_ascii=False)
    found = ORDERS.search(re.sub(r"\s+|\\[nrt]", " ", text))
    if found is None:
        return {"decision": "allow"}
    return {"decision": "withhold", "reason": "the result contains instructions to the model"}

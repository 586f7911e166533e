"""A hook at a URL, with the standard library only: outside office hours a person has to allow the call.

HOOK_SECRET=whsec_$(head -c 32 /dev/urandom | base64) python office_hours.py 9100

[[hooks]]
on = "before_call"
url = "http://127.0.0.1:9100/"
secret = "${HOOK_SECRET}"
tools = ["deploy_*"]
"""

import base64
import datetime as dt
import hashlib
import hmac
import http.server
import json
import os
import sys
import time

KEY = base64.b64decode(os.environ["HOOK_SECRET"].removeprefix("whsec_"))
OPENS, CLOSES = int(os.environ.get("OPENS", "9")), int(os.environ.get("CLOSES", "17"))
TOLERANCE = 300
"""Seconds; an older request may be a replay."""


def decide(event):
    hour = dt.datetime.now(dt.UTC).hour
    if OPENS <= hour < CLOSES:
        return {"decision": "allow"}
    return {"decision": "ask", "reason": f"{event['call']['tool']} was called outside office hours"}


def is_genuine(headers, body):
    """The signature of Standard Webhooks: `v1,` and the HMAC of id, time and body."""
    number, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
    if not sent.isdigit() or abs(time.time() - int(sent)) > TOLERANCE:
        return False
    digest = hmac.digest(KEY, f"{number}.{sent}.".encode() + body, hashlib.sha256)
    expected = f"v1,{base64.b64encode(digest).decode()}"
    return any(hmac.compare_digest(expected, given) for given in headers.get("webhook-signature", "").split())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        genuine = is_genuine(self.headers, body)
        answer = json.dumps(decide(json.loads(body)) if genuine else {"error": "wrong signature"}).encode()
        self.send_response(200 if genuine else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()

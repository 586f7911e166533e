"""Wire formats that the gateway, the SDK and other services share. No I/O; imports `errors` and `model` only."""

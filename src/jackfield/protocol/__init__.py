"""What the gateway, the SDK and services that publish tools share: wire formats, API records, functions as tools.

No network and no files; imports `model` and `errors` only.
"""

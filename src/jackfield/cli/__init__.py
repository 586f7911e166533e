"""The command line, built on the SDK.

`main` dispatches, `options` declares commands, `target` finds the gateway, `output` prints.
"""

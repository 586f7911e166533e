"""What a gateway says on the wire, as one JSON document, so that two versions can be compared.

    python -m conformance.wire CHECKOUT > new.json
    python -m conformance.wire --compare old.json new.json

`project` is what the gateway serves, `requests` asks for everything, `snapshot` writes down what came back without what
differs from run to run, `comparison` says what two snapshots disagree about.
"""

"""Notifications: what happens is written to an outbox with the transition that causes it, and delivered from there.

`recorder.py` decides which targets an event is for, `transactions.py` keeps the outbox, `delivery.py` delivers to one
target, `webhook.py`, `slack.py` and `mail.py` speak to it, `service.py` holds them together.
"""

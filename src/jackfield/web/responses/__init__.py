"""The Responses door, an Open Responses server: requests read, responses written, kept and streamed.

What a model says and which tools run is the engine's business (`agents/`); here its events become the wire's. May
import: agents and everything below, and its neighbours in `web/`. Never: SQL, or a model.
"""

"""Sessions: an agent in a sandbox, and the caller that lends it tools. Above: web. Below: agents, calls, workers."""

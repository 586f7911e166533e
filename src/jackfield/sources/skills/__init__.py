"""Agent skills: of a folder (`kind = "skills"`) and of MCP servers; what is wrong with one, in a sentence."""

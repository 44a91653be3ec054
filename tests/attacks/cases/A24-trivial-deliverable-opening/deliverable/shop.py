Thought process:

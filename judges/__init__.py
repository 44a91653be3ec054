"""The judge: plain Python that knows no web framework, queue or database."""

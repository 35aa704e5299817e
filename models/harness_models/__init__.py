"""The built-in model adapters: each public module is one adapter, named after its file."""

"""The built-in tasks: each public module is one benchmark, named after its file."""

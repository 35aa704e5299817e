"""The built-in shelf of judges: each public module is one judge, named after its file."""

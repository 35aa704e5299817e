"""The built-in shelf of codecs: each public module is one codec, named after its file."""

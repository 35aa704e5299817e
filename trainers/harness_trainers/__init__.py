"""The built-in shelf of trainers; each public module on it is one trainer."""

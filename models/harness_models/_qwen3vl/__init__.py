"""The parts of the adapter ``qwen3vl``; trainers use them too."""

"""A synthetic world: scenes, language, judge, codec, model and training data, all exact."""

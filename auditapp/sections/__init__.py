"""The parts of an estimate: observations go in, plain objects of figures come out; each figure is one of `stats`."""

"""Work grows linearly with every repeated part of the input, at every public entry."""

"""Objects of a cluster as the program reads them, and the store that contains them."""

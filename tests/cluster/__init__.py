"""The live cluster, against a fake API server over real sockets."""

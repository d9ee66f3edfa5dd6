"""What a TPU or a GPU is: the facts about devices that mutation and validation ask for."""

"""The commands of ``ddpmi``, one module each: the function, its help and ``register``, which adds it to the program."""

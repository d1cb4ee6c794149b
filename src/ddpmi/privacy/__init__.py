"""The mathematics of the privacy guarantee: budgets, composition and exact noise. It reads and writes nothing.

- budget: epsilon and delta as exact numbers.
- accounting: what releases cost together, and what a sampled release costs.
- randomness: cryptographic random words.
- samplers: exact samples of discrete distributions.
- tails: bounds of the tail probabilities of noise.
- noise: discrete Laplace and discrete Gaussian noise, and the noise of one table.
"""

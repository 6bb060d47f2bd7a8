"""The order of the gallery: fields that belong together stand together."""

ORDER = """ode_fit hamiltonian_monte_carlo optimal_control shallow_water molecular_dynamics
    shape_optimisation kalman_filter hidden_markov_model gaussian_process option_greeks
    image_registration soft_dtw spiking_neurons c_function""".split()


class InOrder:
    """A sort key for sphinx-gallery: the place in `ORDER`. A new example must be put there."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, name):
        """The place of a file."""
        return ORDER.index(name.removesuffix(".py"))

"""The vm dialect: the host program of a public function, which allocates, calls kernels and returns."""

"""From a placed module to an executable: plan, storage, kernels, libraries."""

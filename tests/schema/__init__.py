"""Generation of the table of KubeRay's fields from its CustomResourceDefinitions."""

"""Makes the table of KubeRay's fields from its CustomResourceDefinitions."""

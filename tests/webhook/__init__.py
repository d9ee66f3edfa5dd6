"""Tests of the packages of `webhook`, each in a package of the same name."""

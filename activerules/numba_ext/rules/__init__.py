"""Rules, typed and compiled to the engine's convention.

In the order of the flow: the engine asks `rule_compiler` for the rule of a marked call; `stored`
has it, or `pair_rules` or `forward_rules` compiles its functions (each by `functions`) and checks
their types, which makes a `compiled.CompiledRule`; `wrap` builds the LLVM functions around it, with
`caller`, and `returned` for the checks that run at every call. Of one part of a call: `parts`
(tuples), `results`, `tapes`, `objects`. `checks` and `debug_checks` are the compiled functions that
these call. `forward_of_pair` makes a forward rule of a pair, and `debug` one that checks another.
`primals` serves the calls that need no rule.
"""

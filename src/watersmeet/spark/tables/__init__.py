"""Tables that streams are enriched from: they are staged as files, and kept while queries run.

- :mod:`.enrichment`: an enrichment as a DataFrame
- :mod:`.settings`: what a session's settings say of it

A table gets a name by what it was made from:

- :mod:`.identity`: the names of a table and of its versions
- :mod:`.plan_digest`: what its query computes
- :mod:`.files`: the files that it is read from
- :mod:`.sources`: what else its rows depend on

Then it is staged:

- :mod:`.staging`: which of a table is written, and in which folder
- :mod:`.stage_job`: the job that writes it
- :mod:`.folders`: how a folder gets its name, and how it is removed

While queries run, and afterwards:

- :mod:`.tenants`: what a query reads is not removed
- :mod:`.refresh`: a table that changes is staged anew
- :mod:`.temporary`: tables that only this process can find are removed with it
"""

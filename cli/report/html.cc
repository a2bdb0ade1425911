// See html.h.
#include "cli/report/html.h"

#include "absl/strings/str_cat.h"

namespace zerofleet::cli {
namespace {

constexpr char kPageStyle[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;"
    "background:#fff}"
    "table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}td,th{padding:.25rem .8rem;"
    "border-bottom:1px solid #d0d7de;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "@media(prefers-color-scheme:dark){body{background:#15181d;color:#e6e6e6}td,th{border-color:#333a44}}";

}  // namespace

std::string EscapedHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? '?' : c;
    }
  }
  return out;
}

std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table><tr>";
  for (const std::string& name : header) absl::StrAppend(&html, "<th>", EscapedHtml(name), "</th>");
  html += "</tr>";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&html, i == 0 ? "<th>" : "<td class=\"n\">", EscapedHtml(row[i]), i == 0 ? "</th>" : "</td>");
    }
    html += "</tr>";
  }
  return html + "</table>\n";
}

std::string HtmlHead(std::string_view title, std::string_view style) {
  return absl::StrCat("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" ",
                      "content=\"width=device-width\">\n<title>", EscapedHtml(title), "</title>\n<style>", kPageStyle,
                      std::string(style), "</style>\n");
}

}  // namespace zerofleet::cli
